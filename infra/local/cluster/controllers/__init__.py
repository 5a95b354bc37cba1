"""What acts around the API server: kubelets, scheduler, and the controllers of a drain."""
