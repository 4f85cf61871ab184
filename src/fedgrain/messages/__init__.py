"""What the server and the sites send each other: its encoding, its checks and its limits."""
