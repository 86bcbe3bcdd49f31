"""One flat script a page; what pages share is in ``pages.parts``."""
