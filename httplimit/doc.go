// Package httplimit limits the requests of a net/http server.
//
//	handler = httplimit.New(l, httplimit.Options{
//		Request: func(r *http.Request) (limiter.Request, error) {
//			return limiter.Request{
//				Entity: tenantOf(r), Resource: "api", // of a key that has been checked
//				Costs: limiter.Costs{"rpm": 1},
//			}, nil
//		},
//	})(handler)
//
// A denied request is answered with 429, Retry-After, the fields RateLimit and RateLimit-Policy
// (draft-ietf-httpapi-ratelimit-headers), and a JSON body like the Python zae-limiter's. A granted
// one gets the same two fields, and its lease in the context ([Lease]) to settle its real cost.
// With an in-flight limit the context ends when the slot is lost, with the cause
// limiter.ErrSlotsLost. [XRateLimit] and [OpenAI] are for clients that read older fields.
//
// Never take the entity from a value that a client may choose freely: each new name is a full
// bucket, so a flood of made-up keys passes, and is paid for. Check a key before it is limited.
// Before anybody has signed in, the key is the address: [ClientIP].
package httplimit
