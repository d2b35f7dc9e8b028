"""How fast, accessible and tidy the pages are as Lighthouse sees them: what `make lighthouse` measures."""
