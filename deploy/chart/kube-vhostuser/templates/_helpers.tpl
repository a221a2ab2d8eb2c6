{{- define "kube-vhostuser.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "kube-vhostuser.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "kube-vhostuser.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "kube-vhostuser.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kube-vhostuser.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "kube-vhostuser.labels" -}}
{{ include "kube-vhostuser.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "kube-vhostuser.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "kube-vhostuser.serviceAccountName" -}}
{{- default (ternary (include "kube-vhostuser.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* Not empty if the daemon uses the API server: its container then has a token, and may send to the API server. */}}
{{- define "kube-vhostuser.apiAccess" -}}
{{- if or .Values.events.enabled .Values.dra.enabled -}}true{{- end -}}
{{- end -}}

{{/* Labels and annotations of what `helm test` needs before its pod. */}}
{{- define "kube-vhostuser.testRights" -}}
labels:
  {{- include "kube-vhostuser.labels" . | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-weight: "-1"
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{- define "kube-vhostuser.selinux" -}}
{{- if or .Values.selinux.enabled .Values.openshift.enabled -}}true{{- end -}}
{{- end -}}

{{- define "kube-vhostuser.cniBinPath" -}}
{{- default (ternary "/var/lib/cni/bin" "/opt/cni/bin" .Values.openshift.enabled) .Values.cni.binPath -}}
{{- end -}}
