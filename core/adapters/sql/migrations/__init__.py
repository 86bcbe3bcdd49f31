"""The schema's history. Steps are never changed once released; a new one is added."""
