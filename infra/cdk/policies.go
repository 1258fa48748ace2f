package cdk

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/jsii-runtime-go"

	"github.com/zeroae/zae-limiter-go/internal/layout"
)

// Policy names the rights of a program. Each allows all that a program of its kind asks of DynamoDB, and no more.
type Policy string

// The policies, which [Limiter.Grant] grants, and of which a stack has managed ones.
const (
	Acquire Policy = "acquire" // acquire, settle, give back, split and merge buckets
	Admin   Policy = "admin"   // and change entities, limits and namespaces, and read everything
	Read    Policy = "read"    // read limits, buckets, usage and audit events
)

// NamespaceTag is the tag of a principal that holds the id, not the name, of
// its namespace. It is the one that the Python stack's policies use.
const NamespaceTag = "zael_namespace_id"

// Actions by purpose. A transaction has no right of its own: it needs the rights of its parts.
var (
	configActions = []string{"dynamodb:BatchGetItem"}
	getActions    = []string{"dynamodb:BatchGetItem", "dynamodb:GetItem"}
	queryActions  = []string{"dynamodb:Query"}
	// ConditionCheckItem and DeleteItem are parts of transactions that split and
	// merge shards, PutItem makes a bucket.
	checkAction   = "dynamodb:ConditionCheckItem"
	chargeActions = []string{
		checkAction, "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem",
	}
	adminActions = append(slices.Clone(chargeActions), "dynamodb:BatchWriteItem")
	wholeActions = []string{"dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"}
)

// policy is the properties that differ between the policies.
type policy struct {
	id, description string   // of the managed policy
	inNamespace     string   // description of the policy for the namespace in the principal's tag
	read, write     []string // actions on items
	query           bool     // queries of the table and its indexes are allowed, and mentioned in the description
	everything      bool     // it writes more than buckets
}

var policies = map[Policy]policy{
	Acquire: {id: "AcquirePolicy", description: "Acquire from every bucket of the limiter.",
		inNamespace: "Acquire within the namespace that the principal is tagged with.",
		read:        configActions, write: chargeActions},
	Admin: {id: "AdminPolicy",
		description: "Change limits, entities and namespaces of the limiter, and read everything.",
		inNamespace: "Change and read what is in the namespace that the principal is tagged with.",
		read:        getActions, write: adminActions, query: true, everything: true},
	Read: {id: "ReadPolicy", description: "Read limits, buckets, usage and audit events of the limiter.",
		inNamespace: "Read what is in the namespace that the principal is tagged with.",
		read:        getActions, query: true},
}

// namespaceID is the form of an id: in a policy, a star would match other ids too, and the id _ is
// for the records of the table itself.
var namespaceID = regexp.MustCompile(`\A([A-Za-z0-9-][A-Za-z0-9_-]*|_[A-Za-z0-9_-]+)\z`)

// addPolicies declares the managed policies, for all namespaces and for the namespace in the
// principal's tag.
func (l *Limiter) addPolicies() {
	l.Policies, l.NamespacePolicies = map[Policy]awsiam.ManagedPolicy{}, map[Policy]awsiam.ManagedPolicy{}
	tagged := []string{"${aws:PrincipalTag/" + NamespaceTag + "}"}
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		p := policies[name]
		l.Policies[name] = l.newPolicy(p.id, string(name), p.description, l.statements(p, nil))
		l.NamespacePolicies[name] = l.newPolicy("Namespace"+p.id, "namespace-"+string(name), p.inNamespace,
			l.statements(p, tagged))
	}
}

func (l *Limiter) newPolicy(id, name, description string, statements []statement) awsiam.ManagedPolicy {
	m := awsiam.NewManagedPolicy(l.Construct, jsii.String(id), &awsiam.ManagedPolicyProps{
		Description:       jsii.String(description),
		ManagedPolicyName: l.name(l.props.IAM.PolicyNameFormat, name),
		Statements:        policyStatements(statements),
	})
	accept(m, finding{"AwsSolutions-IAM5", "AWS documents the rights on a key in these families.", keyFamilies})
	return m
}

// Grant gives the grantee the rights of a policy: in the namespaces of these ids, or in all if none is given. With
// ids, [Admin] changes no namespaces. It panics for an unknown policy, and for text that is no id.
func (l *Limiter) Grant(grantee awsiam.IGrantable, p Policy, namespaceIDs ...string) (all awsiam.Grant) {
	granted, ok := policies[p]
	if !ok {
		panic(fmt.Errorf("policy %q: accepted: Acquire, Admin, Read", p))
	}
	for _, id := range namespaceIDs {
		if !namespaceID.MatchString(id) {
			panic(fmt.Errorf("namespace id %q: accepted: letters, digits, hyphens and underscores, not _ alone", id))
		}
	}
	to := l.whereRightsGo(grantee)
	for _, s := range l.statements(granted, namespaceIDs) {
		g := awsiam.Grant_AddToPrincipal(&awsiam.GrantOnPrincipalOptions{
			Grantee: to, Actions: jsii.Strings(s.actions...), ResourceArns: &s.resources, Conditions: &s.conditions,
		})
		if all == nil {
			all = g
		} else {
			all = all.Combine(g)
		}
	}
	return all
}

// statements returns the rights of a policy. With namespaces, they apply only to partition keys
// that begin with one of them. The table's own records, which contain the namespaces' names and the
// version, can then be read by key, but not listed, so no tenant can discover another. All keys of
// a request must be in one statement. So one statement has the keys of both, because a limiter that
// renews its configuration requests both at once.
func (l *Limiter) statements(p policy, namespaces []string) []statement {
	var out []statement
	on := func(actions []string) statement { return allow(actions, l.Table.TableArn()) }
	key, acquires := l.keyOfTable(len(p.write) > 0), len(p.write) > 0 && !p.everything
	if len(namespaces) == 0 {
		switch {
		case p.everything:
			out = append(out, on(slices.Concat(p.read, p.write)))
		case acquires:
			out = append(out, under(on(p.read), acquiring("*")...), under(on(p.write), "*"+bucketKeys))
		default:
			out = append(out, on(p.read))
		}
		if p.query {
			out = append(out, on(wholeActions))
			out = append(out, allow(queryActions, append(l.indexArns(), l.Table.TableArn())...))
		}
		return append(out, key...)
	}
	var items, shared, buckets, entries []string
	for _, ns := range namespaces {
		items = append(items, ns+"/*")
		buckets = append(buckets, ns+bucketKeys)
		entries = append(entries, ns) // the partition key of GSI4 is only the id
		if acquires {
			shared = append(shared, acquiring(ns)...)
		} else {
			shared = append(shared, ns+"/*")
		}
	}
	shared = append(shared, layout.TableNamespace+layout.SystemPKSuffix)
	onShared, rest := configActions, slices.Concat(p.read, p.write)
	if p.everything {
		onShared = append(slices.Clone(onShared), checkAction) // changes check that the namespace is active
	}
	rest = slices.DeleteFunc(rest, func(a string) bool { return slices.Contains(onShared, a) })
	out = append(out, leading(on(onShared), shared))
	if acquires {
		out = append(out, leading(on(rest), buckets))
	} else {
		out = append(out, leading(on(rest), items))
	}
	if p.query {
		query := allow(queryActions, append(l.indexArns(), l.Table.TableArn())...)
		out = append(out, leading(query, append(items, entries...)))
	}
	return append(out, key...)
}

// bucketKeys are the partition keys of buckets, after a namespace's id. Acquiring writes nothing
// else; limits, entities, usage and audit events have other keys.
const bucketKeys = "/" + layout.BucketPKPart + "*"

// acquiring returns the partition keys that acquiring reads in a namespace: of buckets and of
// limits. Usage has the key of its entity, which IAM cannot distinguish from the entity's limits;
// audit events have other keys.
func acquiring(ns string) []string {
	return []string{ns + bucketKeys, ns + "/" + layout.EntityPKPart + "*", ns + "/" + layout.ResourcePKPart + "*",
		ns + layout.SystemPKSuffix}
}

func (l *Limiter) indexArns() (out []*string) {
	for _, name := range indexes() {
		out = append(out, jsii.String(*l.Table.TableArn()+"/index/"+name))
	}
	return out
}

// under restricts a statement on single items to partition keys. Each of its requests has one.
func under(s statement, keys ...string) statement {
	return s.when("ForAllValues:StringLike", "dynamodb:LeadingKeys", keys)
}

// leading is under for requests that must not reveal one namespace to another. A request without a
// partition key would satisfy a condition on all keys; the second condition refuses it.
func leading(s statement, keys []string) statement {
	return under(s, keys...).when("Null", "dynamodb:LeadingKeys", "false")
}
