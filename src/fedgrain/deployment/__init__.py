"""A federation across machines, on Flower: what the server and the sites do in a round."""
