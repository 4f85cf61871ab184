"""The tables and figures of published studies, made from their committed files alone."""
