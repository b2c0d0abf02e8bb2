"""The register in SQLite: its tables, its operations as statements, and what is asked of it."""
