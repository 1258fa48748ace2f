// Package cdk is the limiter as a construct for the AWS Cloud Development Kit: the table, the
// functions fed by its stream, and the resources that an operator needs around them. [New] with nil
// properties is fit for production.
//
//	limits := cdk.New(stack, "Limits", &cdk.Props{TableName: "prod-limits"})
//	limits.Grant(service.TaskDefinition().TaskRole(), cdk.Acquire)
//
// Names of keys, indexes, metrics and environment variables come from the root module, so that a
// template and the code that runs against it cannot disagree. Synthesis needs no credentials and
// makes no call to AWS.
//
// The program in app is a stack with nothing but this construct in it.
package cdk
