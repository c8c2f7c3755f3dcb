# The same images as `make image`, for machines with Docker:
#   docker build --target manager -t example/gitfn/manager .
#   docker build --target builder -t example/gitfn/builder .
#   docker build --target registry-gateway -t example/gitfn/registry-gateway .
# The registry is distribution's own image; runtimes/nodejs has its own Dockerfile.
FROM golang:1.26-bookworm AS compile
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /out/ ./cmd/manager ./cmd/registry-gateway ./cmd/builder

FROM scratch AS builder
COPY --from=compile /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=compile /out/builder /gitfn/builder
USER 10001:10001
ENTRYPOINT ["/gitfn/builder"]

FROM scratch AS registry-gateway
COPY --from=compile /out/registry-gateway /gitfn/registry-gateway
USER 65532:65532
ENTRYPOINT ["/gitfn/registry-gateway"]

FROM scratch AS manager
COPY --from=compile /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=compile /out/manager /gitfn/manager
USER 65532:65532
ENTRYPOINT ["/gitfn/manager"]
