"""Console pages of rentals."""
