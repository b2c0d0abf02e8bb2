"""The parts of the wing in the coordinator: pure, as all of it."""
