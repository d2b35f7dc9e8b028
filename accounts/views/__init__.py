"""Console pages of accounts."""
