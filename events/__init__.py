"""What is said about nodes: events as they come in, and the notices they hold."""
