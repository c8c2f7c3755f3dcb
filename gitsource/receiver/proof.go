package receiver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// proof tells whether the sender of a body knows a key. It takes as long for a wrong one as for a right one.
type proof func(key, body []byte) bool

// proven tells whether one of the proofs holds. It looks at all of them.
func proven(proofs []proof, key, body []byte) bool {
	good := false
	for _, holds := range proofs {
		good = holds(key, body) || good
	}
	return good
}

// hexHMACs is for forges that send the HMAC-SHA256 of the body in hex. headers maps the names of headers to what
// stands before the hex. The HMAC is computed once for all of them.
func hexHMACs(headers map[string]string) func(http.Header) []proof {
	return func(header http.Header) []proof {
		var signatures []string
		for name, prefix := range headers {
			if signature, ok := strings.CutPrefix(header.Get(name), prefix); ok && signature != "" {
				signatures = append(signatures, signature)
			}
		}
		if len(signatures) == 0 {
			return nil
		}
		return []proof{func(key, body []byte) bool {
			want, good := sum(key, body), false
			for _, signature := range signatures {
				got, err := hex.DecodeString(signature)
				good = hmac.Equal(got, want) && err == nil || good
			}
			return good
		}}
	}
}

// token is for forges that send the key itself. The hashes are compared, so that the time does not tell the length.
func token(got string) proof {
	return func(key, _ []byte) bool {
		have, want := sha256.Sum256([]byte(got)), sha256.Sum256(key)
		return hmac.Equal(have[:], want[:])
	}
}

// standardWebhook is a signature as standardwebhooks.com has it: the HMAC-SHA256 over id, time and body in base64,
// several of them with blanks between. The time is not looked at: a hint that comes again does no harm, and clocks differ.
func standardWebhook(id, at, signatures string) proof {
	return func(key, body []byte) bool {
		want, good := sum(signingKey(key), []byte(id+"."+at+"."), body), false
		for _, signature := range strings.Fields(signatures) {
			encoded, first := strings.CutPrefix(signature, "v1,")
			got, err := base64.StdEncoding.DecodeString(encoded)
			good = hmac.Equal(got, want) && first && err == nil || good
		}
		return good
	}
}

// signingKey is the key that a signing token stands for.
func signingKey(token []byte) []byte {
	encoded, prefixed := strings.CutPrefix(string(token), "whsec_")
	if key, err := base64.StdEncoding.DecodeString(encoded); prefixed && err == nil {
		return key
	}
	return token
}

func sum(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}
