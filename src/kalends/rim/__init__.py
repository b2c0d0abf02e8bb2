"""Code for the computer and the network that clients and servers share."""
