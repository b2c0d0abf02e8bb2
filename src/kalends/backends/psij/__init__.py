"""Batch systems that no adapter of ours knows, as PSI/J knows them: jobs go there, no slot is promised."""
