package cdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
)

// archiveLifecycle is what becomes of archive objects. By default they stay as
// they are, because they are far smaller than the 128 KB that colder classes
// bill as a minimum.
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
	}
	return rule
}

// newBucket declares a private, encrypted bucket that refuses plain HTTP. It is
// not versioned: an object is written once and never replaced.
//
// The bucket of failed records is the on-failure destination of both mappings.
// A bucket, because the other destinations receive only the position of a batch
// that was given up, and the stream forgets the records after a day. Nothing
// expires there: each object is usage or an audit event that is to be replayed.
func (l *Limiter) newBucket(id string, rule *awss3.LifecycleRule) awss3.Bucket {
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
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		LifecycleRules:    &rules,
		RemovalPolicy:     l.keep(),
	}
	if l.Key != nil {
		props.Encryption, props.EncryptionKey = awss3.BucketEncryption_KMS, l.Key
		props.BucketKeyEnabled = jsii.Bool(true)
	}
	b := awss3.NewBucket(l.Construct, jsii.String(id), props)
	l.fixLogicalID(b, id)
	accept(b, finding{"AwsSolutions-S1", "Only the functions and Lambda write here; who reads is logged by CloudTrail " +
		"data events where an account wants them.", nil})
	return b
}
