package function

import "fmt"

// Archiver is the configuration of functions/archiver. Its zero value is not
// valid.
type Archiver struct {
	// BucketName is the S3 bucket for archive objects.
	BucketName string
}

// ArchiverFromEnv reads the configuration of functions/archiver from the environment through
// getenv. The error names the variable, its value and the accepted values.
func ArchiverFromEnv(getenv func(string) string) (Archiver, error) {
	name := getenv(EnvArchiveBucketName)
	if !isBucketName(name) {
		return Archiver{}, fmt.Errorf("%s=%q: want the name of an S3 bucket: 3 to 63 lower-case letters, "+
			"digits, dots and hyphens, first and last a letter or digit", EnvArchiveBucketName, name)
	}
	return Archiver{BucketName: name}, nil
}
