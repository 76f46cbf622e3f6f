"""What commands print: one module per kind of line."""
