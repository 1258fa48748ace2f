package config

// Environment variables of the functions. The infrastructure module sets
// exactly these, by the same constants.
const (
	EnvTableName            = "TABLE_NAME"              // both functions' table (aggregator), required
	EnvSnapshotWindows      = "SNAPSHOT_WINDOWS"        // comma-separated: hourly, daily, monthly
	EnvSnapshotTTLDays      = "SNAPSHOT_TTL_DAYS"       // days a usage snapshot outlives its window, 1..3650
	EnvMaxShards            = "MAX_SHARDS"              // most shards a bucket is split into, a power of two
	EnvMergeAfterSeconds    = "MERGE_AFTER_SECONDS"     // seconds between a split or a merge and the next merge, if cool
	EnvWriteConcurrency     = "WRITE_CONCURRENCY"       // writes in flight per invocation
	EnvArchiveBucketName    = "ARCHIVE_BUCKET_NAME"     // archiver's S3 bucket, required
	EnvDeadLetterBucketName = "DEAD_LETTER_BUCKET_NAME" // S3 bucket that keeps malformed records (aggregator), optional
)
