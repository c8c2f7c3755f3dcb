package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FunctionSpec is what a user wants to run.
type FunctionSpec struct {
	// Runtime names the language and version of the handler, for example
	// nodejs22. The administrator's catalogue says which there are.
	// +kubebuilder:validation:MinLength=1
	Runtime string `json:"runtime"`

	// RuntimeImageOverride is a base image to use instead of the runtime's own.
	// It must be built from the runtime's image and be given by digest.
	// +optional
	RuntimeImageOverride string `json:"runtimeImageOverride,omitempty"`

	// Source says where the code is: in a Git repository or in this object.
	Source Source `json:"source"`

	// Env are variables of the Function's container. Those that the runtime
	// itself needs cannot be set.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(e, !(e.name in ['FUNC_RUNTIME','FUNC_HANDLER','FUNC_PORT','MOD_NAME','NODE_PATH','PYTHONPATH']))",message="env may not set FUNC_RUNTIME, FUNC_HANDLER, FUNC_PORT, MOD_NAME, NODE_PATH or PYTHONPATH: the runtime sets them"
	// +kubebuilder:validation:MaxItems=500
	Env []corev1.EnvVar `json:"env,omitempty"`

	// ResourceConfiguration sets CPU and memory of the Function's Pods and of its builds.
	// +optional
	ResourceConfiguration *ResourceConfiguration `json:"resourceConfiguration,omitempty"`

	// ScaleConfig asks for automatic scaling between two numbers of replicas.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="minReplicas must be at most maxReplicas"
	ScaleConfig *ScaleConfig `json:"scaleConfig,omitempty"`

	// Replicas is the number of Pods. An autoscaler writes it through the scale subresource.
	// +optional
	// +kubebuilder:default:=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Template is not used any more: set labels and annotations instead.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.labels)",message="template.labels is not supported: use spec.labels"
	// +kubebuilder:validation:XValidation:rule="!has(self.annotations)",message="template.annotations is not supported: use spec.annotations"
	Template *Template `json:"template,omitempty"`

	// SecretMounts are Secrets of this namespace mounted as files, read-only.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	SecretMounts []SecretMount `json:"secretMounts,omitempty"`

	// Labels are added to the Function's Pods.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(e, !e.startsWith('serverless.kyma-project.io/'))",message="labels with the prefix serverless.kyma-project.io/ are reserved"
	// +kubebuilder:validation:XValidation:rule="self.all(e, size(self[e]) < 64)",message="values of labels have at most 63 characters"
	// +kubebuilder:validation:MaxProperties=100
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations are added to the Function's Pods.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(e, !e.startsWith('serverless.kyma-project.io/'))",message="annotations with the prefix serverless.kyma-project.io/ are reserved"
	// +kubebuilder:validation:MaxProperties=100
	Annotations map[string]string `json:"annotations,omitempty"`

	// PodSecurityContext is merged over the Pod's default security context.
	// +optional
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`

	// ContainerSecurityContext is merged over the container's default security context.
	// +optional
	ContainerSecurityContext *corev1.SecurityContext `json:"containerSecurityContext,omitempty"`

	// Suspend keeps what runs and looks at nothing: no poll, no build, no rollout.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Pin holds the Function at a revision of status.history, named by its
	// commit, tree or digest, while status goes on following the reference.
	// +optional
	Pin string `json:"pin,omitempty"`

	// RevisionHistoryLimit is how many revisions status.history keeps.
	// +optional
	// +kubebuilder:default:=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// Source is either a Git repository or two strings.
// +kubebuilder:validation:XValidation:rule="has(self.gitRepository) != has(self.inline)",message="set exactly one of gitRepository and inline"
type Source struct {
	// GitRepository takes the code from Git.
	// +optional
	GitRepository *GitRepository `json:"gitRepository,omitempty"`
	// Inline takes the code from this object.
	// +optional
	Inline *Inline `json:"inline,omitempty"`
}

// Inline is code written into the Function itself.
type Inline struct {
	// Source is the handler's text.
	// +kubebuilder:validation:MinLength=1
	Source string `json:"source"`
	// Dependencies is the text of the runtime's manifest: package.json or requirements.txt.
	// +optional
	Dependencies string `json:"dependencies,omitempty"`
}

// GitRepository is a place in a Git repository to follow.
// +kubebuilder:validation:XValidation:rule="has(self.baseDir) && self.baseDir.trim().size() > 0",message="baseDir is required: use / for the root of the repository"
// +kubebuilder:validation:XValidation:rule="has(self.reference) && self.reference.trim().size() > 0",message="reference is required: a branch, a tag or a full commit id"
// +kubebuilder:validation:XValidation:rule="!(has(self.interval) && has(self.schedule))",message="set at most one of interval and schedule"
type GitRepository struct {
	// URL of the repository, https:// or http://, without user and password:
	// those belong into the Secret that auth names.
	// +kubebuilder:validation:MinLength=1
	URL string `json:"url"`
	// Auth names the credentials. Absent means none.
	// +optional
	Auth *RepositoryAuth `json:"auth,omitempty"`
	// BaseDir is the directory that holds the handler, / for the root. Only
	// changes below it build.
	// +optional
	BaseDir string `json:"baseDir,omitempty"`
	// Reference is what to follow: a branch, a tag, a full reference name
	// (refs/...), a full commit id, or the highest tag of a semver range
	// (semver:>=1.2 <2).
	// +optional
	Reference string `json:"reference,omitempty"`
	// Interval is how often to ask the server, if no push hint came first. The
	// administrator's default is 1m.
	// +optional
	Interval *metav1.Duration `json:"interval,omitempty"`
	// Schedule is a cron expression (five fields, TZ=... may precede) that says
	// when to ask the server, instead of interval.
	// +optional
	Schedule string `json:"schedule,omitempty"`
	// Include lists further paths of the repository that join the files below
	// baseDir, for example a shared folder or the lock file of a workspace. What
	// changes below them builds too.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	Include []Include `json:"include,omitempty"`
	// Submodules fetches the submodules below baseDir. Those on the
	// repository's own host are read with its credentials, others without.
	// +optional
	Submodules bool `json:"submodules,omitempty"`
	// Verification wants signed commits or tags. What is not signed by a
	// trusted key is not run: the last good revision stays.
	// +optional
	Verification *Verification `json:"verification,omitempty"`
}

// Include is a path that joins the files below baseDir.
type Include struct {
	// Path is a file or a directory below the root of the repository.
	// +kubebuilder:validation:MinLength=1
	Path string `json:"path"`
	// To is where it stands below baseDir. The default is the last part of path.
	// +optional
	To string `json:"to,omitempty"`
}

// Verification says what must be signed, and by whom.
type Verification struct {
	// Mode is HEAD for the commit, Tag for the annotated tag that reference
	// names, TagAndHEAD for both.
	// +optional
	// +kubebuilder:default:=HEAD
	// +kubebuilder:validation:Enum=HEAD;Tag;TagAndHEAD
	Mode string `json:"mode,omitempty"`
	// SecretName is a Secret in the Function's namespace. Each of its values is
	// a file of trusted keys: armored OpenPGP public keys, or SSH public keys.
	// +kubebuilder:validation:XValidation:rule="self.trim().size() > 0",message="secretName must not be blank"
	SecretName string `json:"secretName"`
}

// AuthType says how a repository's Secret is read.
// +kubebuilder:validation:Enum=basic;key;githubApp
type AuthType string

// The kinds of repository Secrets.
const (
	// AuthBasic reads username and password.
	AuthBasic AuthType = "basic"
	// AuthKey reads an SSH private key.
	AuthKey AuthType = "key"
	// AuthGitHubApp reads the private key of a GitHub App, its ID and that of
	// its installation.
	AuthGitHubApp AuthType = "githubApp"
)

// RepositoryAuth names the Secret with a repository's credentials.
type RepositoryAuth struct {
	// Type is basic (username, password), key (SSH private key) or githubApp.
	// A Secret of type kubernetes.io/basic-auth goes with basic only, and one of
	// type kubernetes.io/ssh-auth with key.
	Type AuthType `json:"type"`
	// SecretName is a Secret in the Function's namespace. basic reads username and
	// password; key reads key or ssh-privatekey, and password as its passphrase;
	// githubApp reads githubAppID, githubAppInstallationID, githubAppPrivateKey and
	// githubAppBaseURL. All of them take known_hosts, ca.crt, tls.crt with tls.key,
	// proxy and noProxy.
	// +kubebuilder:validation:XValidation:rule="self.trim().size() > 0",message="secretName must not be blank"
	SecretName string `json:"secretName"`
}

// ResourceConfiguration sizes a Function's Pods and builds.
type ResourceConfiguration struct {
	// Function sizes the Pods that serve: profile XS, S, M, L or XL, or resources.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.profile) != has(self.resources)",message="set exactly one of profile and resources"
	// +kubebuilder:validation:XValidation:rule="!has(self.profile) || self.profile in ['XS','S','M','L','XL']",message="profile must be one of XS, S, M, L, XL"
	Function *ResourceRequirements `json:"function,omitempty"`
	// Build sizes the build Pod as a whole: profile local-dev, slow, normal or fast, or resources.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.profile) != has(self.resources)",message="set exactly one of profile and resources"
	// +kubebuilder:validation:XValidation:rule="!has(self.profile) || self.profile in ['local-dev','slow','normal','fast']",message="profile must be one of local-dev, slow, normal, fast"
	Build *ResourceRequirements `json:"build,omitempty"`
}

// ResourceRequirements is the name of a profile, or CPU and memory in full.
type ResourceRequirements struct {
	// Profile names a preset of the administrator.
	// +optional
	Profile string `json:"profile,omitempty"`
	// Resources are requests and limits as in a Pod.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
}

// ScaleConfig bounds automatic scaling.
type ScaleConfig struct {
	// MinReplicas is the lower bound.
	// +kubebuilder:validation:Minimum=1
	MinReplicas *int32 `json:"minReplicas"`
	// MaxReplicas is the upper bound.
	// +kubebuilder:validation:Minimum=1
	MaxReplicas *int32 `json:"maxReplicas"`
}

// Template is kept so that old manifests get a clear answer.
type Template struct {
	// Labels must not be set.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations must not be set.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// SecretMount mounts one Secret.
type SecretMount struct {
	// SecretName is a Secret in the Function's namespace.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
	// MountPath is the directory to mount it at.
	// +kubebuilder:validation:MinLength=1
	MountPath string `json:"mountPath"`
}

// FunctionStatus is what gitfn knows of a Function.
type FunctionStatus struct {
	// ObservedGeneration is the newest generation that is done or stalled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are ConfigurationReady, BuildReady and Running, and their
	// summary Ready; Reconciling and Stalled exist only while True.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Runtime is the runtime of the image that runs.
	// +optional
	Runtime string `json:"runtime,omitempty"`
	// RuntimeImage is the base image, by digest, of the image that runs.
	// +optional
	RuntimeImage string `json:"runtimeImage,omitempty"`
	// RuntimeImageOverride is the override in use.
	// +optional
	RuntimeImageOverride string `json:"runtimeImageOverride,omitempty"`

	// Commit is the commit that the reference resolved to last.
	// +optional
	Commit string `json:"commit,omitempty"`
	// BaseDir and Reference are those of the last accepted source.
	// +optional
	BaseDir string `json:"baseDir,omitempty"`
	// +optional
	Reference string `json:"reference,omitempty"`
	// GitRepository is the last accepted source in full.
	// +optional
	GitRepository *GitRepositoryStatus `json:"gitRepository,omitempty"`

	// Image is the image that runs, by digest.
	// +optional
	Image string `json:"image,omitempty"`
	// Revision is the revision that runs, written reference@sha1:commit.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Tree is the Git object id of the files that run.
	// +optional
	Tree string `json:"tree,omitempty"`

	// Source is the state of looking at the source.
	// +optional
	Source *SourceStatus `json:"source,omitempty"`
	// Build is the state of the newest build.
	// +optional
	Build *BuildStatus `json:"build,omitempty"`
	// History lists the revisions that were built or rolled out, newest first.
	// +optional
	// +listType=atomic
	History []HistoryEntry `json:"history,omitempty"`

	// Replicas is the number of Pods that there are.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// PodSelector selects the Pods, for the scale subresource.
	// +optional
	PodSelector string `json:"podSelector,omitempty"`
	// FunctionResourceProfile is the profile in use, or custom.
	// +optional
	FunctionResourceProfile string `json:"functionResourceProfile,omitempty"`
	// BuildResourceProfile is the build profile in use, or custom.
	// +optional
	BuildResourceProfile string `json:"buildResourceProfile,omitempty"`
	// LastHandledReconcileAt is the value of the annotation
	// reconcile.fluxcd.io/requestedAt that was answered last.
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
}

// GitRepositoryStatus is a Git source as it was accepted.
type GitRepositoryStatus struct {
	// URL of the repository.
	URL string `json:"url"`
	// BaseDir below its root.
	BaseDir string `json:"baseDir"`
	// Reference that is followed.
	Reference string `json:"reference"`
	// Ref is the full name that the reference resolved to, for example
	// refs/tags/v1 where a branch could have had that name as well.
	// +optional
	Ref string `json:"ref,omitempty"`
	// Commit that it resolved to.
	Commit string `json:"commit"`
	// Signer is the key whose signature was verified, if verification is wanted.
	// +optional
	Signer string `json:"signer,omitempty"`
	// Warnings say what works but may surprise.
	// +optional
	Warnings []string `json:"warnings,omitempty"`
}

// SourceStatus is the state of looking at the source.
type SourceStatus struct {
	// Class of the last failure, for example GitAuth; empty while all is well.
	// +optional
	Class string `json:"class,omitempty"`
}

// BuildState is where a build is.
// +kubebuilder:validation:Enum=Queued;Running;Succeeded;Failed
type BuildState string

// The states of a build.
const (
	// BuildQueued waits for a slot.
	BuildQueued BuildState = "Queued"
	// BuildRunning has a slot.
	BuildRunning BuildState = "Running"
	// BuildSucceeded pushed an image.
	BuildSucceeded BuildState = "Succeeded"
	// BuildFailed ended without one.
	BuildFailed BuildState = "Failed"
)

// BuildStatus remembers the newest build, so that its Job need not be kept.
type BuildStatus struct {
	// Key is the hash of what is built.
	Key string `json:"key"`
	// State is Queued, Running, Succeeded or Failed.
	State BuildState `json:"state"`
	// Attempt counts the builds of this key, from 1.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// QueuePosition is the place in the queue, from 1; absent when not queued.
	// +optional
	QueuePosition int32 `json:"queuePosition,omitempty"`
	// Job is the name of the build's Job while there is one.
	// +optional
	Job string `json:"job,omitempty"`
	// Causes say why it builds: First, Source, Runtime, Base, Recipe, Rebuild.
	// +optional
	// +listType=atomic
	Causes []string `json:"causes,omitempty"`
	// Class of the failure, for example DependencyNotFound.
	// +optional
	Class string `json:"class,omitempty"`
	// Message is one sentence about the failure.
	// +optional
	Message string `json:"message,omitempty"`
	// Output is the end of what the failed build printed.
	// +optional
	Output string `json:"output,omitempty"`
	// Secrets is a fingerprint of the Secrets of a failed build: when they
	// change, the key is tried again.
	// +optional
	Secrets string `json:"secrets,omitempty"`
	// StartedAt is when the build was first wanted, EndedAt when it was over.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// NextTry is when a failure that can pass is tried again.
	// +optional
	NextTry *metav1.Time `json:"nextTry,omitempty"`
	// DependenciesCached is true if the dependency layer was reused and no
	// package manager ran.
	// +optional
	DependenciesCached bool `json:"dependenciesCached,omitempty"`
	// Floating is true if the dependencies have no lock file.
	// +optional
	Floating bool `json:"floating,omitempty"`
}

// HistoryEntry is one image that this Function had.
type HistoryEntry struct {
	// Key is the hash of what was built.
	Key string `json:"key"`
	// Digest of the image.
	Digest string `json:"digest"`
	// Revision it was built from, reference@sha1:commit, or inline@sha1:tree.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Commit it was built from; absent for an inline source.
	// +optional
	Commit string `json:"commit,omitempty"`
	// Tree is the Git object id of its files.
	Tree string `json:"tree"`
	// Runtime and RuntimeImage that it was built on.
	// +optional
	Runtime string `json:"runtime,omitempty"`
	// +optional
	RuntimeImage string `json:"runtimeImage,omitempty"`
	// Author and Subject of the commit.
	// +optional
	Author string `json:"author,omitempty"`
	// +optional
	Subject string `json:"subject,omitempty"`
	// Why it was built or found.
	// +optional
	Why string `json:"why,omitempty"`
	// BuiltAt is when its digest became known here.
	// +optional
	BuiltAt *metav1.Time `json:"builtAt,omitempty"`
	// RolledOutAt is when it last became the one that serves.
	// +optional
	RolledOutAt *metav1.Time `json:"rolledOutAt,omitempty"`
}

// Function is code that runs on the cluster, built from Git or from the object itself.
// +kubebuilder:object:root=true
// +kubebuilder:resource:categories={all,kyma-serverless},shortName={fn,fns}
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.podSelector
// +kubebuilder:metadata:labels={"kyma-project.io/module=serverless","app.kubernetes.io/name=gitfn","app.kubernetes.io/component=crd"}
// +kubebuilder:printcolumn:name="Configured",type="string",JSONPath=".status.conditions[?(@.type=='ConfigurationReady')].status"
// +kubebuilder:printcolumn:name="Built",type="string",JSONPath=".status.conditions[?(@.type=='BuildReady')].status"
// +kubebuilder:printcolumn:name="Running",type="string",JSONPath=".status.conditions[?(@.type=='Running')].status"
// +kubebuilder:printcolumn:name="Runtime",type="string",JSONPath=".spec.runtime"
// +kubebuilder:printcolumn:name="Version",type="integer",JSONPath=".metadata.generation"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Revision",type="string",priority=1,JSONPath=".status.revision"
// +kubebuilder:printcolumn:name="Image",type="string",priority=1,JSONPath=".status.image"
// +kubebuilder:printcolumn:name="Message",type="string",priority=1,JSONPath=".status.conditions[?(@.type=='Ready')].message"
type Function struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	// Spec is what is wanted.
	Spec FunctionSpec `json:"spec"`
	// Status is what is.
	// +optional
	Status FunctionStatus `json:"status,omitempty"`
}

// GetConditions returns the conditions of the Function.
func (f *Function) GetConditions() []metav1.Condition { return f.Status.Conditions }

// SetConditions replaces the conditions of the Function.
func (f *Function) SetConditions(conditions []metav1.Condition) { f.Status.Conditions = conditions }

// FunctionList is a list of Functions.
// +kubebuilder:object:root=true
type FunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Function `json:"items"`
}
