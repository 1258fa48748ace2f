// Package envoylimit is Envoy's rate limit service v3 on a limiter: what envoyproxy/ratelimit does with a
// Redis, with its configuration, but with token buckets in a DynamoDB table.
//
//	config, err := envoylimit.ReadFolder("/etc/ratelimit")
//	…
//	service := envoylimit.New(l, config, envoylimit.Options{})
//	service.Register(server)
//	go envoylimit.Watch(ctx, "/etc/ratelimit", config, time.Second, func(c *envoylimit.Config, err error) {
//		if err != nil {
//			log.Print(err) // the old one stays in force
//			return
//		}
//		service.SetConfig(c)
//	})
//
// Each descriptor has a bucket of its own, see [BucketOf], with one limit, named [LimitName]. A rate
// limit of 10 a minute is a bucket that holds 10 tokens and gets one back every six seconds. So 10 are
// granted at once, and 20 at most in any minute; a fixed window grants 20 at once around its edge.
//
// The limit is the one that comes with the request (the override of a descriptor), else the one stored in the
// table for the bucket, else the one of the configuration. Stored limits may be of any kind, and of a
// parent too, with the same name; they are found within 15 seconds. With class: batch next to its rate limit, a
// descriptor leaves the floor that a stored limit has for batch. Limits stored under other names make
// requests fail: give the service a namespace of its own. Of two limits that alternate in one bucket, a
// process may follow one for a minute.
//
// A denied request takes nothing. envoyproxy/ratelimit counts it, so costs that Envoy reports when a stream
// has ended (apply_on_stream_done) are lost here if they are more than is left.
//
// A look, hits_addend of zero in a descriptor, is OVER_LIMIT if no hit is left. It costs a write, as
// each descriptor does that is not denied from what the process knows.
package envoylimit
