"""The stores in SQLite: files, group commit, the broker's register, the site's journal."""
