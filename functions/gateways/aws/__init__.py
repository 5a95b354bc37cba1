"""EC2, Auto Scaling and STS: the few calls that we make, with explicit timeouts and errors.

`client.Aws` has the calls, `types` what they say, `errors` what a refusal means. botocore is
loaded by the first call, and no resource layer above it.
"""
