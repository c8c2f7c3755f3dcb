package queue

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newJob(namespace, name string, age time.Duration, modify ...func(*batchv1.Job)) batchv1.Job {
	suspended := true
	job := batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name),
			CreationTimestamp: metav1.NewTime(noon.Add(-age)),
		},
		Spec: batchv1.JobSpec{Suspend: &suspended},
	}
	for _, m := range modify {
		m(&job)
	}
	return job
}

func admitted(job *batchv1.Job) { *job.Spec.Suspend = false }

func finished(job *batchv1.Job) {
	admitted(job)
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
}

func annotated(key, value string) func(*batchv1.Job) {
	return func(job *batchv1.Job) { metav1.SetMetaDataAnnotation(&job.ObjectMeta, key, value) }
}

func newPod(namespace, job string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: job + "-pod", UID: types.UID("pod/" + job),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", UID: types.UID(namespace + "/" + job)}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func TestDecide(t *testing.T) {
	rows := []struct {
		name  string
		jobs  []batchv1.Job
		pods  []corev1.Pod
		cap   int
		admit []string
		wait  map[string]int
	}{
		{name: "nothing waits: nothing is admitted", cap: 3},
		{
			name:  "free slots: the longest waiting run, the others get places",
			jobs:  []batchv1.Job{newJob("a", "young", time.Second), newJob("a", "old", time.Hour), newJob("a", "middle", time.Minute)},
			cap:   1,
			admit: []string{"a/old"},
			wait:  map[string]int{"a/middle": 1, "a/young": 2},
		},
		{
			name: "an admitted Job without Pod holds its slot",
			jobs: []batchv1.Job{newJob("a", "runs", time.Hour, admitted), newJob("a", "waits", time.Minute)},
			cap:  1,
			wait: map[string]int{"a/waits": 1},
		},
		{
			name: "a Pod of a deleted Job that is still ending holds its slot",
			jobs: []batchv1.Job{newJob("a", "waits", time.Minute)},
			pods: []corev1.Pod{newPod("a", "gone", corev1.PodRunning)},
			cap:  1,
			wait: map[string]int{"a/waits": 1},
		},
		{
			name:  "a finished Job and an ended Pod hold nothing",
			jobs:  []batchv1.Job{newJob("a", "done", time.Hour, finished), newJob("a", "waits", time.Minute)},
			pods:  []corev1.Pod{newPod("a", "done", corev1.PodSucceeded)},
			cap:   1,
			admit: []string{"a/waits"},
		},
		{
			name: "a Job and its own Pod are one slot",
			jobs: []batchv1.Job{newJob("a", "runs", time.Hour, admitted), newJob("a", "next", time.Minute)},
			pods: []corev1.Pod{newPod("a", "runs", corev1.PodRunning)},
			cap:  2, admit: []string{"a/next"},
		},
		{
			name: "a namespace with many does not hold up one with a single build",
			jobs: []batchv1.Job{
				newJob("many", "1", 4*time.Hour, admitted), newJob("many", "2", 3*time.Hour), newJob("many", "3", 2*time.Hour),
				newJob("one", "1", time.Second),
			},
			cap:   2,
			admit: []string{"one/1"},
			wait:  map[string]int{"many/2": 1, "many/3": 2},
		},
		{
			name:  "a refused Job waits for its time",
			jobs:  []batchv1.Job{newJob("a", "refused", time.Hour, annotated(AnnotationNotBefore, noon.Add(time.Minute).Format(time.RFC3339))), newJob("a", "other", time.Second)},
			cap:   1,
			admit: []string{"a/other"},
		},
		{
			name:  "a refused Job whose time has come is behind the others",
			jobs:  []batchv1.Job{newJob("a", "refused", time.Hour, annotated(AnnotationRequeuedAt, noon.Format(time.RFC3339))), newJob("a", "other", time.Second)},
			cap:   1,
			admit: []string{"a/other"},
			wait:  map[string]int{"a/refused": 1},
		},
		{
			name: "a suspended Job whose Pod is still ending is not admitted again",
			jobs: []batchv1.Job{newJob("a", "again", time.Hour)},
			pods: []corev1.Pod{newPod("a", "again", corev1.PodRunning)},
			cap:  2,
		},
		{name: "a cap of zero admits nothing", jobs: []batchv1.Job{newJob("a", "x", 0)}, wait: map[string]int{"a/x": 1}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := NewWithT(t)
			decision := Decide(row.jobs, row.pods, row.cap, noon)
			var admit []string
			for _, name := range decision.Admit {
				admit = append(admit, name.String())
			}
			g.Expect(admit).To(Equal(row.admit))
			wait := map[string]int{}
			for name, place := range decision.Places {
				wait[name.String()] = place
			}
			if row.wait == nil {
				row.wait = map[string]int{}
			}
			g.Expect(wait).To(Equal(row.wait))
		})
	}
}

// TestDecideHoldsTheCap walks random histories: Jobs come, Pods start late, end
// late, Jobs are deleted under their Pods. The slots in use never exceed the
// cap, and every Job runs in the end.
func TestDecideHoldsTheCap(t *testing.T) {
	for seed := range int64(50) {
		g := NewWithT(t)
		random := rand.New(rand.NewSource(seed))
		var jobs []batchv1.Job
		var pods []corev1.Pod
		created, ran, limit := 0, map[string]bool{}, 1+random.Intn(4)
		for step := 0; step < 400 || len(ran) < created; step++ {
			g.Expect(step).To(BeNumerically("<", 5000), "a Job starves")
			switch pick := random.Intn(6); {
			case pick == 0 && step < 400:
				created++
				jobs = append(jobs, newJob(fmt.Sprintf("ns%d", random.Intn(3)), fmt.Sprintf("job%d", created), -time.Duration(step)*time.Second))
			case pick == 1: // a Pod appears for an admitted Job
				for i := range jobs {
					if !*jobs[i].Spec.Suspend && !Finished(&jobs[i]) && !ran[jobs[i].Name] {
						ran[jobs[i].Name] = true
						pods = append(pods, newPod(jobs[i].Namespace, jobs[i].Name, corev1.PodRunning))
						break
					}
				}
			case pick == 2 && len(pods) > 0: // a Pod ends
				i := random.Intn(len(pods))
				pods = append(pods[:i:i], pods[i+1:]...)
			case pick == 3 && len(jobs) > 0: // a Job that ran is finished, or deleted under its Pod
				i := random.Intn(len(jobs))
				if ran[jobs[i].Name] {
					jobs = append(jobs[:i], jobs[i+1:]...)
				}
			default:
				for _, name := range Decide(jobs, pods, limit, noon).Admit {
					for i := range jobs {
						if jobs[i].Namespace == name.Namespace && jobs[i].Name == name.Name {
							*jobs[i].Spec.Suspend = false
						}
					}
				}
			}
			for i := range jobs { // the Job controller sees Pods that are gone
				alive := slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.OwnerReferences[0].UID == jobs[i].UID })
				if ran[jobs[i].Name] && !alive && !Finished(&jobs[i]) {
					finished(&jobs[i])
				}
			}
			g.Expect(len(slots(jobs, pods))).To(BeNumerically("<=", limit), "seed %d step %d", seed, step)
		}
	}
}
