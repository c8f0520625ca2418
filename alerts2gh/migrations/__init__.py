"""How the tables came to be, one step a file. A step never changes once it was released."""
