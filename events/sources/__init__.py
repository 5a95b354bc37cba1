"""One file a source: what its events say, as notices. None of them decides anything."""
