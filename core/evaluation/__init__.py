"""Golden × fixture × judge: did a change make retrieval better or worse, and where (offline-evaluation, section 3)."""
