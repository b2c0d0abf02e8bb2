"""The Python client and the command line. `import kalends` gives the public names."""
