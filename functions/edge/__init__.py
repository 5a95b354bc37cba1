"""How events come in and answers go out."""
