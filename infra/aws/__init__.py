"""What runs in AWS: the template of queue, rules, roles and the Lambda function, and its entry."""
