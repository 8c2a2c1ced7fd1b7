"""Records, journals and files of checkpoints in a bucket of S3, or of a store that speaks its protocol. By boto3.

Nothing here trusts the answer to a write: where it decides something, the object is looked at afterwards.
"""
