package function

// Environment variables of the functions. The infrastructure module sets exactly these, using the
// same constants.
const (
	EnvTableName            = "TABLE_NAME"              // the DynamoDB table (aggregator, setup), required
	EnvSnapshotWindows      = "SNAPSHOT_WINDOWS"        // comma-separated: hourly, daily, monthly
	EnvSnapshotTTLDays      = "SNAPSHOT_TTL_DAYS"       // days a usage snapshot outlives its window, 1..3650
	EnvMaxShards            = "MAX_SHARDS"              // most shards of a bucket, a power of two, 1..1024
	EnvMergeAfterSeconds    = "MERGE_AFTER_SECONDS"     // seconds from a split or merge to the next merge, 1..86400
	EnvWriteConcurrency     = "WRITE_CONCURRENCY"       // writes in flight per invocation, 1..256
	EnvMaxWriteUnits        = "MAX_WRITE_UNITS"         // write units per second, 1..40000; default: no bound
	EnvArchiveBucketName    = "ARCHIVE_BUCKET_NAME"     // archiver's S3 bucket, required
	EnvThresholds           = "THRESHOLDS"              // percents of quotas to report, such as 50,80,budget=90
	EnvAlertTargetARN       = "ALERT_TARGET_ARN"        // event bus or SNS topic for thresholds, optional
	EnvDeadLetterBucketName = "DEAD_LETTER_BUCKET_NAME" // S3 bucket for malformed records (aggregator), optional
)

// Name returns the name of the function in its metrics: the one under which it is deployed, or
// name.
func Name(getenv func(string) string, name string) string {
	if deployed := getenv("AWS_LAMBDA_FUNCTION_NAME"); deployed != "" {
		return deployed
	}
	return name
}
