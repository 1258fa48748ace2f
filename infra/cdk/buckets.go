package cdk

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/infra/cdk/internal/holding"
)

// versionsKeptDays is how long a deleted archive object can be restored, if objects expire.
const versionsKeptDays = 30

// archiveLifecycle returns the lifecycle of archive objects. By default they stay: they are far
// below 128 KB, under which S3 moves no object to a colder class.
func (l *Limiter) archiveLifecycle() *awss3.LifecycleRule {
	if l.props.ArchiveTransitionDays == 0 && l.props.ArchiveExpiryDays == 0 {
		return nil
	}
	rule := &awss3.LifecycleRule{Id: jsii.String("age")}
	if n := l.props.ArchiveTransitionDays; n > 0 {
		rule.Transitions = &[]*awss3.Transition{{
			StorageClass:    awss3.StorageClass_GLACIER_INSTANT_RETRIEVAL(),
			TransitionAfter: awscdk.Duration_Days(jsii.Number(n)),
		}}
	}
	if n := l.props.ArchiveExpiryDays; n > 0 {
		rule.Expiration = awscdk.Duration_Days(jsii.Number(n))
		// Otherwise expired objects would be kept, and billed, as versions. An archive has some even after its
		// versioning is switched off.
		rule.NoncurrentVersionExpiration = awscdk.Duration_Days(jsii.Number(versionsKeptDays))
	}
	return rule
}

// newBucket declares a private, encrypted bucket that refuses plain HTTP and TLS below 1.2. Objects
// are written once and never replaced; versions only keep deleted objects.
//
// The bucket of failed records is the on-failure destination of both mappings. It is a bucket
// because the other destinations receive only the position of a batch that was given up, and the
// stream drops its records after a day. Nothing expires there: each object is usage or an audit
// event to be replayed.
func (l *Limiter) newBucket(id string, rule *awss3.LifecycleRule, versioned bool) awss3.Bucket {
	var unversioned []finding
	if id == holding.FailedRecords {
		unversioned = everywhere("S3BucketVersioningEnabled", "What is in it is deleted once it has been replayed.")
	}
	rules := []*awss3.LifecycleRule{{
		Id:                                  jsii.String("tidy"),
		AbortIncompleteMultipartUploadAfter: awscdk.Duration_Days(jsii.Number(7)),
	}}
	if rule != nil {
		rules = append(rules, rule)
	}
	props := &awss3.BucketProps{
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		Encryption:        awss3.BucketEncryption_S3_MANAGED,
		EnforceSSL:        jsii.Bool(true),
		MinimumTLSVersion: jsii.Number(1.2),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		LifecycleRules:    &rules,
		RemovalPolicy:     l.keep(),
	}
	if versioned {
		props.Versioned = jsii.Bool(true)
	}
	if l.Key != nil {
		props.Encryption, props.EncryptionKey = awss3.BucketEncryption_KMS, l.Key
		props.BucketKeyEnabled = jsii.Bool(true)
	}
	b := awss3.NewBucket(l.Construct, jsii.String(id), props)
	l.fixLogicalID(b, id)
	const logged = "Only the functions and Lambda write here; who reads is logged by CloudTrail data events where an " +
		"account wants them."
	accept(b, slices.Concat([]finding{{"AwsSolutions-S1", logged, nil}}, everywhere("S3BucketLoggingEnabled", logged),
		everywhere("S3BucketReplicationEnabled", "A second region is for the account to choose; S3 keeps three copies."),
		unversioned)...)
	return b
}
