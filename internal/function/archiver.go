package function

import "fmt"

// ArchiveFromEnv reads the name of the S3 bucket for archive objects. The error names the variable, its
// value and the accepted values.
func ArchiveFromEnv(getenv func(string) string) (bucket string, err error) {
	if bucket = getenv(EnvArchiveBucketName); !isBucketName(bucket) {
		return "", fmt.Errorf("%s=%q: want the name of an S3 bucket: 3 to 63 lower-case letters, "+
			"digits, dots and hyphens, first and last a letter or digit", EnvArchiveBucketName, bucket)
	}
	return bucket, nil
}
