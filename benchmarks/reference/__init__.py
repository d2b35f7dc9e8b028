"""What the product is measured against: the least that could do the same."""
