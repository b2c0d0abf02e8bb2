"""The commands about jobs and machines, with their options, scripts, terminals, texts and drawings."""
