"""Where every rescale of a module could stand, what that costs, and putting it there."""
