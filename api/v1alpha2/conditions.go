package v1alpha2

// Condition types of a Function. Each is owned by the step of the Function
// reconciler that bears its name; Ready, Reconciling and Stalled by its end.
const (
	// ConfigurationReady is True when the source was read and resolved to a
	// tree; False when the spec or the source is faulty, the last good version
	// then goes on serving; absent before the first look.
	ConfigurationReady = "ConfigurationReady"
	// BuildReady is True when there is an image for the wanted tree; Unknown
	// while it is built or waits for its turn; False when the build failed.
	BuildReady = "BuildReady"
	// Running is True when Pods of the wanted image serve; Unknown while they
	// are coming; False when they do not become ready. Its message names the
	// revision that serves.
	Running = "Running"
)

// Reasons of conditions and events. The words are those that users of the
// Function API already know.
const (
	ReasonInvalidFunctionSpec = "InvalidFunctionSpec" // ConfigurationReady False: only a change of the spec cures it
	ReasonSourceUpdated       = "SourceUpdated"       // ConfigurationReady True
	ReasonSourceUpdateFailed  = "SourceUpdateFailed"  // ConfigurationReady False

	ReasonSuspended = "Suspended" // Ready True: it serves, and is left so; Stalled True: nothing serves

	ReasonJobCreated  = "JobCreated"  // BuildReady Unknown: waits in the queue
	ReasonJobRunning  = "JobRunning"  // BuildReady Unknown
	ReasonJobFinished = "JobFinished" // BuildReady True
	ReasonJobFailed   = "JobFailed"   // BuildReady False

	ReasonDeploymentCreated              = "DeploymentCreated"              // event
	ReasonDeploymentUpdated              = "DeploymentUpdated"              // event
	ReasonDeploymentWaiting              = "DeploymentWaiting"              // Running Unknown
	ReasonMinReplicasNotAvailable        = "MinReplicasNotAvailable"        // Running Unknown
	ReasonDeploymentReady                = "DeploymentReady"                // Running True
	ReasonDeploymentFailed               = "DeploymentFailed"               // Running False
	ReasonHorizontalPodAutoscalerCreated = "HorizontalPodAutoscalerCreated" // event
	ReasonHorizontalPodAutoscalerUpdated = "HorizontalPodAutoscalerUpdated" // event
	ReasonServiceFailed                  = "ServiceFailed"                  // Running False
)

// Annotations of a Function that gitfn reads.
const (
	// AnnotationRebuild joins the key: any new value builds again.
	AnnotationRebuild = "serverless.kyma-project.io/rebuild"
	// AnnotationSecretRollout says with "false" that Pods stay when a Secret
	// changes that env or secretMounts name. By default they are replaced.
	AnnotationSecretRollout = "serverless.kyma-project.io/secret-rollout"
)

// Labels of everything that belongs to a Function.
const (
	LabelFunctionName = "serverless.kyma-project.io/function-name"
	LabelManagedBy    = "serverless.kyma-project.io/managed-by"
	LabelUUID         = "serverless.kyma-project.io/uuid"
	// ManagedBy is the value of LabelManagedBy.
	ManagedBy = "function-controller"
)
