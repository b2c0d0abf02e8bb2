"""The broker plans a request over the sites that it knows, and drives the commit protocol."""
