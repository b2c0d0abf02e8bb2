"""Machines whose jobs are processes of a host belong to that host, wherever their site's store is opened."""
