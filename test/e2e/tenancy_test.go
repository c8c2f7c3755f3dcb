package e2e

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// TestTenancy tries the credentials of one namespace on the images of another.
func TestTenancy(t *testing.T) {
	t.Parallel()
	a, b := newSpace(t, "tenant-a"), newSpace(t, "tenant-b")
	for _, s := range []*space{a, b} {
		s.readyAt("fn", s.apply(newFunction("fn", inline(handler("mine"), ""))))
	}
	image, err := random.Image(1024, 1)
	a.g.Expect(err).NotTo(HaveOccurred())
	theirs, mine := b.repositoryOf(b.name+"/fn"), a.repositoryOf(a.name+"/fn")
	pin := theirs.Tag(b.function("fn").Status.History[0].Key)

	a.refused(remote.Write(pin, image, remote.WithAuth(a.credential(secretPush))), "push over a pin of another namespace")
	_, err = remote.Get(pin, remote.WithAuth(a.credential(secretPush)))
	a.refused(err, "pull from another namespace")
	a.refused(remote.Delete(pin, remote.WithAuth(a.credential(secretPush))), "delete in another namespace")
	a.refused(remote.Delete(mine.Tag(a.function("fn").Status.History[0].Key), remote.WithAuth(a.credential(secretPush))), "delete what may be in use")
	a.refused(remote.Write(mine.Tag("forged"), image, remote.WithAuth(a.credential(secretPull))), "push with the credential for pulling")
	_, err = remote.Get(pin)
	a.refused(err, "pull without a credential")

	a.g.Expect(remote.Write(mine.Tag("own"), image, remote.WithAuth(a.credential(secretPush)))).To(Succeed(), "push to its own")
	_, err = remote.Get(pin, remote.WithAuth(b.credential(secretPull)))
	a.g.Expect(err).NotTo(HaveOccurred(), "the owner pulls what it had")

	// What runs in the namespaces has neither credential.
	for _, pod := range present[corev1.Pod](watched.pods, a.name) {
		a.g.Expect(pod.Spec.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		for _, volume := range pod.Spec.Volumes {
			if pod.Labels[labelResource] != "build" {
				a.g.Expect(volume.Secret).To(BeNil(), "volume %s of Pod %s", volume.Name, pod.Name)
			}
		}
	}
}

func (s *space) refused(err error, what string) {
	s.t.Helper()
	var answer *transport.Error
	s.g.Expect(errors.As(err, &answer)).To(BeTrue(), "%s: %v", what, err)
	s.g.Expect(answer.StatusCode).To(Or(Equal(http.StatusForbidden), Equal(http.StatusUnauthorized)), "%s: %v", what, err)
	s.t.Logf("%s: %v", what, err)
}
