"""Between two processes of one site: a private socket, and what is sent over it."""
