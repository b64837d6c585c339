"""What every question shares: the machine, the floor, pairs of cells and their ratios, the table."""
