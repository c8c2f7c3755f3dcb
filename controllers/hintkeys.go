package controllers

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gitfn/gitfn/gitsource/receiver"
)

// hintSecretKey is the key of a Secret that push hints are verified with.
const hintSecretKey = "token"

// The manager does not hold the cluster's Secrets, but it cannot read one for each
// of a thousand hints a second either. So the keys of hints, and nothing else of
// their Secrets, are remembered for seconds.
const (
	keyLife  = 10 * time.Second
	keysHeld = 1000
)

// hintKeys are the keys that hints were verified with lately. Each counts only as
// long as its Secret has not changed. It is safe for concurrent use; the zero value
// is empty.
type hintKeys struct {
	mu      sync.Mutex
	known   map[types.NamespacedName]hintKey
	reading singleflight.Group
}

type hintKey struct {
	key     []byte // none: the Secret is not for hints
	version string
	read    time.Time
}

// get returns the key in a Secret. metadata tells without a request that there is no
// such Secret, or that it has changed; live is asked for what is in it.
func (k *hintKeys) get(ctx context.Context, name types.NamespacedName, metadata, live client.Reader, now time.Time) ([]byte, error) {
	there := &metav1.PartialObjectMetadata{}
	there.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := metadata.Get(ctx, name, there); apierrors.IsNotFound(err) {
		return nil, receiver.ErrNoSecret
	} else if err != nil {
		return nil, err
	}
	found, fresh := k.remembered(name, there.ResourceVersion, now)
	if !fresh {
		read, err, _ := k.reading.Do(name.String()+" "+there.ResourceVersion, func() (any, error) {
			// Others wait for this answer: it does not end with the hint that asked first.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return k.read(ctx, name, live, now)
		})
		if err != nil {
			return nil, err
		}
		found = read.(hintKey)
	}
	if len(found.key) == 0 {
		return nil, receiver.ErrNoSecret
	}
	return found.key, nil
}

func (k *hintKeys) remembered(name types.NamespacedName, version string, now time.Time) (hintKey, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found, known := k.known[name]
	return found, known && found.version == version && now.Sub(found.read) < keyLife
}

// read reads a Secret and remembers its key.
func (k *hintKeys) read(ctx context.Context, name types.NamespacedName, live client.Reader, now time.Time) (hintKey, error) {
	secret := &corev1.Secret{}
	if err := live.Get(ctx, name, secret); apierrors.IsNotFound(err) {
		return hintKey{}, nil
	} else if err != nil {
		return hintKey{}, err
	}
	found := hintKey{version: secret.ResourceVersion, read: now}
	if !kubernetesToken[secret.Type] {
		found.key = secret.Data[hintSecretKey]
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		k.known = map[types.NamespacedName]hintKey{}
	}
	for other := range k.known {
		if len(k.known) < keysHeld {
			break
		}
		delete(k.known, other)
	}
	k.known[name] = found
	return found, nil
}

// kubernetesToken are Secrets that have a key "token" for another purpose. Hints make
// nobody remember those.
var kubernetesToken = map[corev1.SecretType]bool{
	corev1.SecretTypeServiceAccountToken: true,
	corev1.SecretTypeBootstrapToken:      true,
}

// drop forgets what is too old.
func (k *hintKeys) drop(now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, found := range k.known {
		if now.Sub(found.read) >= keyLife {
			delete(k.known, name)
		}
	}
}
