"""Questions about the catalogue."""
