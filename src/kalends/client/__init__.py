"""The Python client. `import kalends` gives the public names."""
