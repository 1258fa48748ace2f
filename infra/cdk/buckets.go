package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// newArchiveBucket declares the bucket of archived audit events. It is not
// versioned: an event's object is written once and never replaced. Objects stay
// in the standard storage class, because they are far smaller than the 128 KB
// that colder classes bill as a minimum.
func newArchiveBucket(scope constructs.Construct) awss3.Bucket {
	return newBucket(scope, "ArchiveBucket", &awss3.LifecycleRule{
		Id:                                  jsii.String("tidy"),
		AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(7)),
	})
}

// newFailedRecordsBucket declares the on-failure destination of both event
// source mappings. A bucket, because the other destinations receive only the
// position of a batch that was given up, and the stream forgets the records
// after a day. Nothing expires here: each object is usage or an audit event
// that still has to be replayed.
func newFailedRecordsBucket(scope constructs.Construct) awss3.Bucket {
	return newBucket(scope, "FailedRecordsBucket", &awss3.LifecycleRule{
		Id:                                  jsii.String("tidy"),
		AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(7)),
	})
}

// newBucket declares a private, encrypted bucket that refuses plain HTTP and
// outlives the stack.
func newBucket(scope constructs.Construct, id string, rule *awss3.LifecycleRule) awss3.Bucket {
	b := awss3.NewBucket(scope, jsii.String(id), &awss3.BucketProps{
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		EnforceSSL:        jsii.Bool(true),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		LifecycleRules:    &[]*awss3.LifecycleRule{rule},
		RemovalPolicy:     awscdk.RemovalPolicy_RETAIN,
	})
	fixLogicalID(b, id)
	return b
}
