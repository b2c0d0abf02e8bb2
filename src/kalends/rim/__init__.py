"""What clients and servers share where they meet the computer and the network."""
